#!/usr/bin/env python3
"""Trees of agents with the real program: what they cost, how soon they stop, and what a kill leaves of them.

A tree is a root that calls four planners, each of which calls four leaves: three levels, 21 sessions. Root and planners are
scripted. Store: sqlite, in a folder for the run that is removed at the end.

  whole    one tree; the journals must have one transcript, one bill and one trace. --model URL has the leaves ask a real model there
           (scripts/local-model.sh). The trace is received by scripts/telemetry-receiver.sh, if that is installed or can be
  cancel   cancels at the root while leaves hang in the model (two of each planner's), in a tool (one) and in an approval (one), and measures until
           no model call is open, no process of a tool lives and the last outcome is in the journals. The verdict is the p99 of this
           above what an empty task of another process takes at the same time
  kill     kill -9 at a random instant of a tree, then `run --finish`: each side effect at most once, each child begun once, the
           sums right, no turn open
  crowd    many parents with four children each in one `batch`: the time of all, and of a parent, against the ideal
  large    small turns of other sessions without and with results of 60 MiB in one: the p99 of a turn, and the middle read by the model

usage: scripts/tree.py {whole,cancel,kill,crowd,large} --program cli-agent [--times 200] [--seed 1] [--keep]

Exits with 1 if what is looked at does not hold. All that is printed goes to stdout; the load is part of it.
"""
import argparse
import importlib
import sys


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["whole", "cancel", "kill", "crowd", "large"])
    parser.add_argument("--program", required=True)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", help="the base URL of a model for the leaves of `whole`")
    parser.add_argument("--asked", default="approval_asked", help=argparse.SUPPRESS)
    parser.add_argument("--keep", action="store_true", help="keep the folder")
    args = parser.parse_args()
    sys.exit(0 if getattr(importlib.import_module(f"trees.{args.what}"), args.what)(args) else 1)


if __name__ == "__main__":
    main()
