"""many_axes"""
