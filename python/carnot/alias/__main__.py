"""Entry point of python -m carnot.alias."""

from carnot.alias import main

main()
