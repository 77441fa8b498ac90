# shellcheck shell=bash
genericBuild
