"""The contents of an archive: ranges of offsets, folders of dates, columns, and counts of the rows in its files.

The rooms that write, read and maintain archives use it; it uses none of them.
"""
