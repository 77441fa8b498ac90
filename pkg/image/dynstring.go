package image

// DynString returns the string that an entry of the dynamic section refers to,
// for a tag whose value is an offset in the string table (DT_AUXILIARY, DT_FILTER …).
func (im *Image) DynString(d Dyn) (string, error) { return im.str(d) }
