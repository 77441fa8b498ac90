// Exceptions (a damaged .eh_frame_hdr aborts), RTTI, a static object.
#include <stdexcept>
#include <string>
extern "C" {
#include "unit.h"
}

namespace {
struct Shape { virtual ~Shape() {} virtual int sides() const { return 0; } };
struct Square : Shape { int sides() const override { return 4; } };
const std::string name("a string that is long enough to be allocated");
__attribute__((noinline)) int fail(const Shape &s)
{
	std::string unwound(name);
	if (const Square *q = dynamic_cast<const Square *>(&s))
		throw std::runtime_error(unwound.substr(0, q->sides()));
	return 0;
}
}

extern "C" int cxx(void)
{
	try {
		return fail(Square());
	} catch (const std::exception &e) {
		return (int)std::string(e.what()).size();
	}
}
