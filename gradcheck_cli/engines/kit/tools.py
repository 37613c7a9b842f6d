"""What the machine must have."""

from __future__ import annotations

from gradcheck_cli.engines.base import Tool

COMPILER = Tool(
    what="a C++ compiler",
    programs=("c++", "g++", "clang++"),
    install="sudo apt install g++    (macOS: xcode-select --install)",
    variable="CXX",
)
