"""Velocity fields to start a flow from, on the periodic square [0, 2π]²."""
