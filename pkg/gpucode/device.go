package gpucode

// devices lists the compute capabilities of NVIDIA's PCI devices from Maxwell on, by their
// numbers: each chip has blocks of 64 or 128. Sources: the chips' names in pci.ids of 2026-08-22,
// and NVIDIA's page "CUDA GPU Compute Capability".
var devices = [...]struct {
	first, last uint16
	Capability
}{
	{0x1340, 0x13bf, 50}, {0x13c0, 0x143f, 52}, {0x17c0, 0x17ff, 52}, // GM108, GM107; GM204, GM206; GM200
	{0x1580, 0x15ff, 60}, {0x1b00, 0x1d7f, 61}, // GP100; GP102 to GP108
	{0x1d80, 0x1dff, 70},                       // GV100
	{0x1e00, 0x1fff, 75}, {0x2180, 0x21ff, 75}, // TU102 to TU106, TU117; TU116
	{0x2080, 0x20ff, 80},                       // GA100
	{0x2200, 0x227f, 86}, {0x2400, 0x25ff, 86}, // GA102; GA103 to GA107
	{0x2300, 0x23ff, 90},                         // GH100
	{0x2680, 0x28ff, 89},                         // AD102 to AD107
	{0x2900, 0x29ff, 100}, {0x3180, 0x327f, 103}, // GB100, GB102; GB110, GB112
	{0x2b80, 0x2dff, 120}, {0x2f00, 0x2f7f, 120}, // GB202, GB203, GB206, GB207; GB205
	{0x2e00, 0x2e7f, 121}, // GB20B
}

// DeviceTable says of when the table of devices is.
const DeviceTable = "table of PCI devices of 2026-08-22"

// OfDevice returns the compute capability of a GPU by its PCI device number.
func OfDevice(id uint16) (Capability, bool) {
	for _, d := range devices {
		if d.first <= id && id <= d.last {
			return d.Capability, true
		}
	}
	return 0, false
}
