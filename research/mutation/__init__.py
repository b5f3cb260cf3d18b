"""How many small bugs, put into the library one at a time, do its tests notice?"""
