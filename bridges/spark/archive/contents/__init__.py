"""What an archive consists of: ranges of offsets, folders of dates, columns, and what is counted in its files.

The rooms that write, read and maintain archives use it; it uses none of them.
"""
