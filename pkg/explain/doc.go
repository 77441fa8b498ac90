// Package explain describes a load of package loader as data: its libraries with
// the rule by which each was found, and a plain sentence about each library of
// the GPU driver.
package explain
