// Package explain shows a load of package loader to people: as a tree for the
// terminal, as JSON, and as a graph for Graphviz, with a plain sentence about
// each library of the GPU driver.
package explain
