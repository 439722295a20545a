"""The papers' evaluation, reproduced: experiments, statements that are held against them, pages."""
