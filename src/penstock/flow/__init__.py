"""How much may pass: the levels of queues, the gates that close and open, and who waits for which of them.

Pure: no input or output, no clock, no chance. Time comes in as an argument, and what is to be done comes out as a
value. The whole package is compiled by mypyc where a C compiler is found, and runs interpreted where none is.
"""
