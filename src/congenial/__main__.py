"""`python -m congenial` is `congenial`."""

from congenial.cli import main

main(prog_name="congenial")
