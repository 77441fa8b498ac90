// Package fixup edits a tree of prebuilt files so that they find their
// libraries: it sets interpreters and run paths, as nixpkgs' autoPatchelfHook does.
//
// The work has three steps, and no flags:
//
//   - index ([Index]): the ELF files of the tree, their heads read once, and the
//     directories of libraries around it, of which only those files are read that
//     something in the tree asks for by name;
//   - resolve ([Resolver]): for each file of the tree, which file each library that
//     it needs is to be, by what the loader accepts (class, machine, symbol versions),
//     and the run path that makes the loader take exactly these: the first candidates are
//     proposed, pkg/loader says what each start would load with them, and one with which
//     something fails is refused, until nothing changes (loop.go);
//   - change ([Index.Change]): Index.verify asks pkg/loader, for every program as it will be,
//     whether it loads what was planned; then [Apply] sets interpreter and run path in one
//     edit a file. [Undo] takes it back from the [Record] beside the tree.
//
// The result depends on the files alone: not on the order in which a directory
// lists them, nor on how many are worked on at a time.
package fixup
