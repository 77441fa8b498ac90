// Package nixconf reads nix.conf and plans the lines that let builds ask for a GPU
// (Nix manual, "nix.conf").
package nixconf
