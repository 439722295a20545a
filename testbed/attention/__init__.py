"""Attention-limited dissemination evaluated: the workload of the paper, its baseline, and predictions.

Source: M. Diallo, S. Fdida, P. Spathis, "Towards extreme scale content-based networking for the next
generation Internet", IEICE Transactions on Communications, E94-B (10), 2011, section 5.
"""
