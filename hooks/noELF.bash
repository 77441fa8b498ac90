# shellcheck shell=bash
# Where no file that is built can be an ELF file, as on Darwin.
addDriverRunpath() { :; }
