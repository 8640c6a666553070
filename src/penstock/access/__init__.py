"""Access: users, their passwords and tags, permissions and limits, the rules of logins, and all checks.

Pure: no input or output, no clock, no randomness; salts are arguments. mypyc compiles the whole package where a C
compiler is found; without one it runs interpreted.
"""
