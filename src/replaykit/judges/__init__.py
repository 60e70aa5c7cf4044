"""Judges: people or models who answer what no assertion can decide, and their answers, stored beside the case.

Nothing here imports a module because a file names it. A replay never asks a judge: it only looks up stored answers.
"""
