"""What a comparison looks like: tables for a terminal, figures, a picture, a clip, and one page that holds them all.

Nothing is imported here: who only prints a table need not wait for matplotlib.
"""
