package patchelf

// Help is what --help shows.
const Help = `usage: patchelf OPTION... FILE...

Edits each FILE in place, with patchelf ` + Compatible + `'s command line. The order of the options does not matter;
what is printed is what the file said before. "@FILE" for an argument stands for what that file holds.

  --print-interpreter            --set-interpreter PATH
  --print-rpath                  --set-rpath LIST, or --add-rpath LIST, which appends
                                 --remove-rpath
                                 --shrink-rpath: drop absolute directories that hold no needed library
                                 --allowed-rpath-prefixes LIST: which of them --shrink-rpath may keep
                                 --force-rpath: write DT_RPATH, not DT_RUNPATH
  --print-needed                 --add-needed NAME, --remove-needed NAME, --replace-needed OLD NEW (repeatable)
  --print-soname                 --set-soname NAME
  --print-execstack              --clear-execstack, --set-execstack
  --print-os-abi                 --set-os-abi NAME
  --clear-symbol-version SYMBOL  take the version off a dynamic symbol (repeatable)
  --no-default-lib               do not search the loader's default directories (DF_1_NODEFLIB)
  --add-debug-tag                add DT_DEBUG, for debuggers of a library that is run as a program
  --build-resolution-cache       write where each needed library is (.note.nixos.ldcache), for loaders that read it
  --output FILE                  write the edited file there; FILE is written even where nothing changes
  --debug, --help, --version

Accepted, without effect here: --page-size SIZE, --no-sort, --no-clobber-old-sections.
Refused: --rename-dynamic-symbols FILE.

Exit status: 0 all is well; 1 something failed, and the files after it were not looked at.
`
