package plainfile

// Rename is rename, for the tests.
var Rename = rename
