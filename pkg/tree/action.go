package tree

// An Action says what a walk did with a file.
type Action string

// The actions. In a dry run, Edited means that the file would be edited.
const (
	Edited    Action = "edited"
	Unchanged Action = "unchanged"
	Skipped   Action = "skipped" // what was asked for has no place in it
	Failed    Action = "failed"
)
