#include <stdio.h>
#include "unit.h"

/* One line for each feature that this image has. */
void report(const char *image)
{
#define REPORT(name) printf("%s " #name " %d\n", image, name());
#ifdef WITH_align
	REPORT(align)
#endif
#ifdef WITH_bss
	REPORT(bss)
#endif
#ifdef WITH_ctor
	REPORT(ctor)
#endif
#ifdef WITH_cxx
	REPORT(cxx)
#endif
#ifdef WITH_ifunc
	REPORT(ifunc)
#endif
#ifdef WITH_odd
	REPORT(odd)
#endif
#ifdef WITH_relr
	REPORT(relr)
#endif
#ifdef WITH_tls
	REPORT(tls)
#endif
	printf("%s ends\n", image);
}
