// Package audit reports what is wrong with run paths: what the loader will find
// through them, what it will find too much or not at all, and how to fix it.
//
// A finding has a stable identifier, so that it can be accepted in a baseline and
// followed by code scanning, a severity and a fix.
package audit
