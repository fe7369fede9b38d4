"""`python -m loope`."""

from loope.cli.main import main

main()
