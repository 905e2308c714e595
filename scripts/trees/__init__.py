"""The parts of scripts/tree.py."""
