"""`python -m congenial` is `congenial`."""

from congenial.cli.main import main

main(prog_name="congenial")
