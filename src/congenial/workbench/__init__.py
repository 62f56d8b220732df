"""The workbench: a web application on this computer, to choose what is exact, see what it costs, release, and ask.

It needs the extra ``workbench``. Nothing outside this package imports it but `congenial workbench`.
"""
