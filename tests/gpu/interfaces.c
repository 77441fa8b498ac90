// One program for each way to use a GPU beside CUDA, chosen by -DVULKAN, -DEGL and so on: each says what it found and
// whether what it computed is right, on one line. Their headers come with the loaders (tests/gpu/loaders).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { count = 4096 };
#define FAIL(...) (printf(__VA_ARGS__), printf("\n"), exit(1))
#define MUST(call)                                                                                                                         \
	do {                                                                                                                               \
		long status = (long)(call);                                                                                                \
		if (status)                                                                                                                \
			FAIL("%s: %ld", #call, status);                                                                                    \
	} while (0)

#ifdef VULKAN
// interfaces SHADER: every device, and what the shader (square.comp, as SPIR-V) makes of a buffer on the first.
#include <vulkan/vulkan.h>
int main(int argc, char **argv) {
	VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_1};
	VkInstanceCreateInfo ici = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
	VkInstance instance;
	MUST(vkCreateInstance(&ici, 0, &instance));
	VkPhysicalDevice all[16];
	uint32_t n = 16;
	MUST(vkEnumeratePhysicalDevices(instance, &n, all));
	if (!n)
		FAIL("no Vulkan device");
	VkPhysicalDeviceProperties p;
	vkGetPhysicalDeviceProperties(all[0], &p);
	VkPhysicalDevice gpu = all[0];

	float priority = 1;
	VkDeviceQueueCreateInfo qci = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, .queueCount = 1, .pQueuePriorities = &priority};
	VkQueueFamilyProperties families[16];
	uint32_t m = 16;
	vkGetPhysicalDeviceQueueFamilyProperties(gpu, &m, families);
	while (qci.queueFamilyIndex < m && !(families[qci.queueFamilyIndex].queueFlags & VK_QUEUE_COMPUTE_BIT))
		qci.queueFamilyIndex++;
	VkDeviceCreateInfo dci = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, .queueCreateInfoCount = 1, .pQueueCreateInfos = &qci};
	VkDevice device;
	MUST(vkCreateDevice(gpu, &dci, 0, &device));

	VkBufferCreateInfo bci = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = count * 4, .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT};
	VkBuffer buffer;
	MUST(vkCreateBuffer(device, &bci, 0, &buffer));
	VkMemoryRequirements needs;
	vkGetBufferMemoryRequirements(device, buffer, &needs);
	VkPhysicalDeviceMemoryProperties memories;
	vkGetPhysicalDeviceMemoryProperties(gpu, &memories);
	VkMemoryAllocateInfo mai = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size};
	VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	while (!(needs.memoryTypeBits >> mai.memoryTypeIndex & 1) ||
	       (memories.memoryTypes[mai.memoryTypeIndex].propertyFlags & visible) != visible)
		if (++mai.memoryTypeIndex >= memories.memoryTypeCount)
			FAIL("no memory for it");
	VkDeviceMemory memory;
	MUST(vkAllocateMemory(device, &mai, 0, &memory));
	MUST(vkBindBufferMemory(device, buffer, memory, 0));
	uint32_t *data;
	MUST(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, (void **)&data));
	for (uint32_t i = 0; i < count; i++)
		data[i] = i;

	static uint32_t words[1 << 14];
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : 0;
	if (!f)
		FAIL("no shader");
	VkShaderModuleCreateInfo smci = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = 4 * fread(words, 4, 1 << 14, f), .pCode = words};
	VkShaderModule shader;
	MUST(vkCreateShaderModule(device, &smci, 0, &shader));
	VkDescriptorSetLayoutBinding binding = {0, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, 0};
	VkDescriptorSetLayoutCreateInfo slci = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, .bindingCount = 1, .pBindings = &binding};
	VkDescriptorSetLayout layout;
	MUST(vkCreateDescriptorSetLayout(device, &slci, 0, &layout));
	VkPipelineLayoutCreateInfo plci = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, .setLayoutCount = 1, .pSetLayouts = &layout};
	VkPipelineLayout pipelines;
	MUST(vkCreatePipelineLayout(device, &plci, 0, &pipelines));
	VkComputePipelineCreateInfo cpci = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, .layout = pipelines,
		.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, .stage = VK_SHADER_STAGE_COMPUTE_BIT, .module = shader, .pName = "main"}};
	VkPipeline pipeline;
	MUST(vkCreateComputePipelines(device, 0, 1, &cpci, 0, &pipeline));
	VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
	VkDescriptorPoolCreateInfo dpci = {VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO, .maxSets = 1, .poolSizeCount = 1, .pPoolSizes = &size};
	VkDescriptorPool pool;
	MUST(vkCreateDescriptorPool(device, &dpci, 0, &pool));
	VkDescriptorSetAllocateInfo dsai = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = pool, .descriptorSetCount = 1, .pSetLayouts = &layout};
	VkDescriptorSet set;
	MUST(vkAllocateDescriptorSets(device, &dsai, &set));
	VkDescriptorBufferInfo whole = {buffer, 0, VK_WHOLE_SIZE};
	VkWriteDescriptorSet write = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = set, .descriptorCount = 1,
		.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, .pBufferInfo = &whole};
	vkUpdateDescriptorSets(device, 1, &write, 0, 0);

	VkCommandPoolCreateInfo cmpci = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = qci.queueFamilyIndex};
	VkCommandPool commands;
	MUST(vkCreateCommandPool(device, &cmpci, 0, &commands));
	VkCommandBufferAllocateInfo cbai = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = commands, .commandBufferCount = 1};
	VkCommandBuffer command;
	MUST(vkAllocateCommandBuffers(device, &cbai, &command));
	VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
	MUST(vkBeginCommandBuffer(command, &begin));
	vkCmdBindPipeline(command, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
	vkCmdBindDescriptorSets(command, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines, 0, 1, &set, 0, 0);
	vkCmdDispatch(command, count / 64, 1, 1);
	VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT, .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
	vkCmdPipelineBarrier(command, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, 0, 0, 0);
	MUST(vkEndCommandBuffer(command));
	VkQueue queue;
	vkGetDeviceQueue(device, qci.queueFamilyIndex, 0, &queue);
	VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &command};
	MUST(vkQueueSubmit(queue, 1, &submit, 0));
	MUST(vkQueueWaitIdle(queue));
	for (uint32_t i = 0; i < count; i++)
		if (data[i] != i * i + 7)
			FAIL("%s: %u became %u", p.deviceName, i, data[i]);
	printf("ok: %u Vulkan device%s, %s, Vulkan %u.%u.%u; the shader computes\n", n, n == 1 ? "" : "s", p.deviceName, VK_VERSION_MAJOR(p.apiVersion),
	       VK_VERSION_MINOR(p.apiVersion), VK_VERSION_PATCH(p.apiVersion));
}

#elif defined EGL
// interfaces [PICTURE]: a triangle drawn by OpenGL on the first device of EGL, without a display; written as PPM.
#define GL_GLEXT_PROTOTYPES
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <GL/gl.h>
#include <GL/glext.h>
static GLuint shader(GLenum kind, const char *text) {
	GLuint s = glCreateShader(kind);
	GLint ok;
	glShaderSource(s, 1, &text, 0);
	glCompileShader(s);
	glGetShaderiv(s, GL_COMPILE_STATUS, &ok);
	if (!ok)
		FAIL("a shader does not compile");
	return s;
}
int main(int argc, char **argv) {
	enum { side = 256 };
	PFNEGLQUERYDEVICESEXTPROC query = (void *)eglGetProcAddress("eglQueryDevicesEXT");
	PFNEGLGETPLATFORMDISPLAYEXTPROC get = (void *)eglGetProcAddress("eglGetPlatformDisplayEXT");
	EGLDeviceEXT devices[16];
	EGLint n = 0;
	if (!query || !get || !query(16, devices, &n) || !n)
		FAIL("no EGL device");
	EGLDisplay display = get(EGL_PLATFORM_DEVICE_EXT, devices[0], 0);
	if (!display || !eglInitialize(display, 0, 0))
		FAIL("EGL cannot be initialised: %#x", eglGetError());
	EGLint wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_RED_SIZE, 8, EGL_GREEN_SIZE, 8, EGL_BLUE_SIZE, 8, EGL_NONE};
	EGLConfig config;
	EGLint configs;
	if (!eglChooseConfig(display, wanted, &config, 1, &configs) || !configs || !eglBindAPI(EGL_OPENGL_API))
		FAIL("no configuration with OpenGL: %#x", eglGetError());
	EGLSurface surface = eglCreatePbufferSurface(display, config, (EGLint[]){EGL_WIDTH, side, EGL_HEIGHT, side, EGL_NONE});
	EGLContext context = eglCreateContext(display, config, EGL_NO_CONTEXT,
		(EGLint[]){EGL_CONTEXT_MAJOR_VERSION, 3, EGL_CONTEXT_MINOR_VERSION, 3, EGL_CONTEXT_OPENGL_PROFILE_MASK, EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE});
	if (!context || !eglMakeCurrent(display, surface, surface, context))
		FAIL("no OpenGL context: %#x", eglGetError());
	GLuint program = glCreateProgram(), array;
	GLint ok;
	glAttachShader(program, shader(GL_VERTEX_SHADER, "#version 330\nout vec3 c; void main() { vec2 p[3] = vec2[](vec2(-0.9, -0.9), vec2(0.9, -0.9), vec2(0, 0.9));"
		"c = vec3(gl_VertexID == 0, gl_VertexID == 1, gl_VertexID == 2); gl_Position = vec4(p[gl_VertexID], 0, 1); }"));
	glAttachShader(program, shader(GL_FRAGMENT_SHADER, "#version 330\nin vec3 c; out vec4 o; void main() { o = vec4(c, 1); }"));
	glLinkProgram(program);
	glGetProgramiv(program, GL_LINK_STATUS, &ok);
	if (!ok)
		FAIL("the shaders do not link");
	glUseProgram(program);
	glGenVertexArrays(1, &array);
	glBindVertexArray(array);
	glViewport(0, 0, side, side);
	glClearColor(0.2f, 0.4f, 0.6f, 1);
	glClear(GL_COLOR_BUFFER_BIT);
	glDrawArrays(GL_TRIANGLES, 0, 3);
	static unsigned char picture[side][side][3];
	glPixelStorei(GL_PACK_ALIGNMENT, 1);
	glReadPixels(0, 0, side, side, GL_RGB, GL_UNSIGNED_BYTE, picture);
	FILE *f = argc > 1 ? fopen(argv[1], "wb") : 0;
	if (f) {
		fprintf(f, "P6 %d %d 255\n", side, side);
		for (int y = side - 1; y >= 0; y--)
			fwrite(picture[y], 3, side, f);
		fclose(f);
	}
	unsigned char *corner = picture[2][2], *middle = picture[side * 7 / 20][side / 2]; // its centre, one third of each colour
	for (int i = 0; i < 3; i++)
		if (abs(corner[i] - 51 * (i + 1)) > 1 || abs(middle[i] - 85) > 3)
			FAIL("%s: the corner is %u %u %u, the middle %u %u %u", glGetString(GL_RENDERER), corner[0], corner[1], corner[2], middle[0], middle[1], middle[2]);
	printf("ok: %d EGL device%s, %s, %s, OpenGL %s; the picture is right\n", n, n == 1 ? "" : "s", eglQueryString(display, EGL_VENDOR), glGetString(GL_RENDERER), glGetString(GL_VERSION));
}

#elif defined OPENCL
// interfaces: every platform and its devices, and what a kernel makes of a buffer on the first.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
int main(void) {
	cl_platform_id platforms[16];
	cl_device_id device;
	cl_uint n = 0, devices;
	cl_int err;
	char name[256], version[256];
	if (clGetPlatformIDs(16, platforms, &n) || !n)
		FAIL("no OpenCL platform");
	MUST(clGetDeviceIDs(platforms[0], CL_DEVICE_TYPE_ALL, 1, &device, &devices));
	MUST(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, 0));
	MUST(clGetPlatformInfo(platforms[0], CL_PLATFORM_VERSION, sizeof version, version, 0));
	cl_context context = clCreateContext(0, 1, &device, 0, 0, &err);
	MUST(err);
	cl_command_queue queue = clCreateCommandQueue(context, device, 0, &err);
	MUST(err);
	const char *text = "kernel void square(global uint *a) { size_t i = get_global_id(0); a[i] = a[i] * a[i] + 7; }";
	cl_program program = clCreateProgramWithSource(context, 1, &text, 0, &err);
	MUST(err);
	MUST(clBuildProgram(program, 1, &device, "", 0, 0));
	cl_kernel kernel = clCreateKernel(program, "square", &err);
	MUST(err);
	static cl_uint data[count];
	for (cl_uint i = 0; i < count; i++)
		data[i] = i;
	cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof data, data, &err);
	MUST(err);
	MUST(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
	size_t items = count;
	MUST(clEnqueueNDRangeKernel(queue, kernel, 1, 0, &items, 0, 0, 0, 0));
	MUST(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof data, data, 0, 0, 0));
	for (cl_uint i = 0; i < count; i++)
		if (data[i] != i * i + 7)
			FAIL("%s: %u became %u", name, i, data[i]);
	printf("ok: %u OpenCL platform%s with %u device%s, %s, %s; the kernel computes\n", n, n == 1 ? "" : "s", devices, devices == 1 ? "" : "s", name, version);
}

#elif defined VDPAU || defined GBM
// interfaces: which driver libvdpau or libgbm opens. Neither can go further without a display or a DRM device, so the
// driver may well fail, or crash, once it is loaded.
static int show(struct dl_phdr_info *info, size_t size, void *found) {
	(void)size;
	const char *name = strrchr(info->dlpi_name, '/');
	if (name && (strstr(name, "vdpau_nvidia") || strstr(name, "nvidia-drm")))
		*(const char **)found = info->dlpi_name;
	return 0;
}
static void end(int unused) {
	(void)unused;
	const char *found = 0;
	dl_iterate_phdr(show, &found);
	if (found)
		printf("ok: it opens %s\n", found);
	else
		printf("no driver is opened\n");
	fflush(stdout);
	_exit(!found);
}
#ifdef VDPAU
unsigned vdp_device_create_x11(void *display, int screen, unsigned *device, void **address);
int main(void) {
	unsigned device;
	void *address;
	setenv("VDPAU_DRIVER", "nvidia", 1); // it would ask the X server
	signal(SIGSEGV, end);
	vdp_device_create_x11(0, 0, &device, &address);
	end(0);
}
#else
#include <fcntl.h>
struct gbm_device *gbm_create_device(int);
int main(void) {
	setenv("GBM_BACKEND", "nvidia-drm", 1); // it would ask the DRM device
	signal(SIGSEGV, end);
	gbm_create_device(open("/dev/null", O_RDWR));
	end(0);
}
#endif

#else
// What asks CUDA for a context first.
#include <ffnvcodec/dynlink_cuda.h>
#include <ffnvcodec/dynlink_nvcuvid.h>
#include <ffnvcodec/nvEncodeAPI.h>
static void *library(const char *name) {
	void *l = dlopen(name, RTLD_NOW);
	if (!l)
		FAIL("%s", dlerror());
	return l;
}
static void *function(void *library, const char *name) {
	void *f = dlsym(library, name);
	if (!f)
		FAIL("%s", dlerror());
	return f;
}
static CUcontext context(void) {
	void *cuda = library("libcuda.so.1");
	tcuInit *init = function(cuda, "cuInit");
	tcuDeviceGet *get = function(cuda, "cuDeviceGet");
	tcuCtxCreate_v2 *create = function(cuda, "cuCtxCreate_v2");
	CUdevice device;
	CUcontext c;
	MUST(init(0));
	MUST(get(&device, 0));
	MUST(create(&c, 0, device));
	return c;
}
#ifdef NVENC
int main(void) {
	void *l = library("libnvidia-encode.so.1");
	NVENCSTATUS (*max)(uint32_t *) = function(l, "NvEncodeAPIGetMaxSupportedVersion");
	NVENCSTATUS (*make)(NV_ENCODE_API_FUNCTION_LIST *) = function(l, "NvEncodeAPICreateInstance");
	NV_ENCODE_API_FUNCTION_LIST f = {.version = NV_ENCODE_API_FUNCTION_LIST_VER};
	uint32_t version = 0;
	MUST(max(&version));
	MUST(make(&f));
	NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS p = {.version = NV_ENC_OPEN_ENCODE_SESSION_EX_PARAMS_VER, .deviceType = NV_ENC_DEVICE_TYPE_CUDA, .device = context(), .apiVersion = NVENCAPI_VERSION};
	void *session;
	NVENCSTATUS s = f.nvEncOpenEncodeSessionEx(&p, &session);
	// GPUs without an encoder, as A100 and H100 are, answer NV_ENC_ERR_NO_ENCODE_DEVICE or NV_ENC_ERR_UNSUPPORTED_DEVICE.
	if (s && s != NV_ENC_ERR_NO_ENCODE_DEVICE && s != NV_ENC_ERR_UNSUPPORTED_DEVICE)
		FAIL("a session: %d", s);
	printf("ok: NVENC %u.%u; a session on CUDA: %s (%d)\n", version >> 4, version & 15, s ? "this GPU has no encoder" : "opened", s);
}
#elif defined NVDEC
int main(void) {
	tcuvidGetDecoderCaps *caps = function(library("libnvcuvid.so.1"), "cuvidGetDecoderCaps");
	struct { const char *name; int codec; } codecs[] = {{"H.264", cudaVideoCodec_H264}, {"HEVC", cudaVideoCodec_HEVC}, {"VP9", cudaVideoCodec_VP9}, {"AV1", cudaVideoCodec_AV1}};
	char said[256] = "";
	context();
	for (int i = 0; i < 4; i++) {
		CUVIDDECODECAPS c = {.eCodecType = codecs[i].codec, .eChromaFormat = cudaVideoChromaFormat_420};
		MUST(caps(&c));
		if (c.bIsSupported)
			snprintf(said + strlen(said), sizeof said - strlen(said), " %s (%ux%u)", codecs[i].name, c.nMaxWidth, c.nMaxHeight);
	}
	printf("%s: NVDEC decodes%s\n", *said ? "ok" : "nothing", said);
}
#elif defined OPTIX
// The table's size is that of the ABI, which only OptiX's headers say; its first three functions are the names of
// errors, their texts, and optixDeviceContextCreate (optix_function_table.h).
int main(void) {
	int (*query)(int, unsigned, void *, void *, void *, size_t) = function(library("libnvoptix.so.1"), "optixQueryFunctionTable");
	CUcontext c = context();
	int abis[] = {118, 105, 93, 87, 84, 68, 60, 55, 47, 41, 36, 22}, err = 0;
	static void *table[256];
	for (unsigned i = 0; i < sizeof abis / sizeof *abis; i++)
		for (size_t n = 20; n < 120; n++)
			if (!(err = query(abis[i], 0, 0, 0, table, n * sizeof *table))) {
				int (*create)(CUcontext, void *, void **) = (int (*)(CUcontext, void *, void **))table[2];
				void *device = 0;
				MUST(create(c, 0, &device));
				printf("ok: OptiX with ABI %d, %zu functions; a device context is made\n", abis[i], n);
				return 0;
			}
	FAIL("optixQueryFunctionTable: %d", err);
}
#endif
#endif
