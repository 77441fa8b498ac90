// Package explain says what a start loads, and what is wrong with it.
//
// A [Case] is one start, with what is known of the host that it is for. [Case.Follow] opens what may be opened later,
// [Describe] returns all libraries with the rule by which each was found, and [Case.Conclusions] what is wrong and what
// helps. The explain command, audit and doctor show these for a file, a tree and a host. [System.Examine] makes a
// [Report] of a file, and a [Summary] counts those of many.
package explain
