"""A fleet on virtual time: the real devices, schedulers, pools and reservations of workers/, with the clock, the step
times of models, the people and the faults made up.
"""
