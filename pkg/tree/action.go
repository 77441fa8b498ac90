package tree

// An Action says what a walk did with a file.
type Action string

// The actions. In a dry run, Edited means that the file would be edited.
const (
	Edited    Action = "edited"
	Unchanged Action = "unchanged"
	Skipped   Action = "skipped" // it cannot hold what was asked for
	Failed    Action = "failed"
)
