#version 450
// The shader of interfaces.c's Vulkan program.
layout(local_size_x = 64) in;
layout(binding = 0) buffer Data { uint a[]; };
void main() {
	uint i = gl_GlobalInvocationID.x;
	a[i] = a[i] * a[i] + 7u;
}
