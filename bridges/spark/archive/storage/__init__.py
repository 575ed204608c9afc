"""Where the files of an archive are: a folder, or a prefix in a bucket of an object store with the S3 API.

`paths` is what both have in common, `s3` the object store. Only `s3` imports obstore, when it is needed.
"""
