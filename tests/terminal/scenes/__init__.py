"""Scenes: what a person sees of runs, kept as text beside the scripts that lead there."""
