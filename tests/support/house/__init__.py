"""The tree's own rules (docs/design.md): sizes of folders, names of files and classes, import circles, `Any`.

`python -m tests.support.house` prints the tree in figures, `--shrink` takes mended violations off allowed.txt.
"""
