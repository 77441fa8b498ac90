package gpucode

import (
	"slices"
	"strings"
)

// products lists what people call their GPUs, by compute capability: NVIDIA's pages "CUDA GPU Compute Capability" and
// "Legacy CUDA GPU Compute Capability", and by their chips in pci.ids of 2026-08-22 those that it sells in few
// countries (H20, L20, A800). A name that several generations have is not here: RTX 6000 alone.
var products = [...]struct {
	Capability
	names string // lower case, without brands and forms
}{
	{121, "gb10,dgx spark"},
	{120, "rtx pro 6000,rtx pro 5000,rtx pro 4500,rtx pro 4000,rtx pro 2000,rtx 5090,rtx 5080,rtx 5070,rtx 5060,rtx 5050"},
	{110, "jetson thor,jetson agx thor,jetson t5000,jetson t4000"},
	{103, "gb300,b300"},
	{100, "gb200,b200"},
	{90, "gh200,h200,h100,h800,h20"},
	{
		89,
		"l4,l40,l40s,l20,l2,rtx 6000 ada,rtx 5880 ada,rtx 5000 ada,rtx 4500 ada,rtx 4000 ada,rtx 4000 sff ada,rtx 2000 ada," +
			"rtx 4090,rtx 4080,rtx 4070,rtx 4060,rtx 4050"},
	{87, "jetson orin,jetson agx orin,jetson orin nx,jetson orin nano"},
	{
		86,
		"a40,a16,a10,a10g,a2,rtx a6000,rtx a5500,rtx a5000,rtx a4500,rtx a4000,rtx a3000,rtx a2000,rtx 3090,rtx 3080,rtx " +
			"3070,rtx 3060,rtx 3050"},
	{80, "a100,a800,a30"},
	{
		75,
		"t4,quadro rtx 8000,quadro rtx 6000,quadro rtx 5000,quadro rtx 4000,quadro rtx 3000,titan rtx,rtx 2080,rtx " +
			"2070,rtx 2060,gtx 1660,gtx 1650"},
	{72, "jetson agx xavier,jetson xavier nx"},
	{70, "v100,titan v,quadro gv100"},
	{62, "jetson tx2"},
	{
		61,
		"p40,p6,p4,titan xp,quadro p6000,quadro p5000,quadro p4000,quadro p2000,quadro p1000,quadro p600,quadro p400,gtx " +
			"1080,gtx 1070,gtx 1060,gtx 1050,gt 1030"},
	{60, "p100,quadro gp100"},
	{53, "jetson nano,jetson tx1"},
	{52, "m60,m40,m6,m4,quadro m6000,quadro m5000,quadro m4000,gtx 980,gtx 970,gtx 960,gtx 950"},
	{50, "gtx 750,m10"},
	{37, "k80"},
	{35, "k40,k20"},
}

// brands may stand before a product's name, forms behind it; those of a memory end with gb.
var (
	brands = []string{"nvidia", "geforce", "tesla"}
	forms  = []string{"ti", "super", "d", "gpu", "laptop", "mobile", "max", "q", "nvl", "pcie", "sxm", "sxm2", "sxm3",
		"sxm4", "sxm5", "hbm2", "hbm2e", "hbm3", "hbm3e",
		"blackwell", "generation", "server", "workstation", "edition"}
)

// product returns the GPU that words name, as people and nvidia-smi do: "RTX 4090", "NVIDIA H100 80GB HBM3".
func product(words []string) (Capability, bool) {
	name := strings.ToLower(strings.Join(words, " "))
	for _, line := range []string{"rtx", "gtx"} { // rtx4090
		if rest, ok := strings.CutPrefix(name, line); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			name = line + " " + rest
		}
	}
	words = strings.FieldsFunc(name, func(r rune) bool { return r == ' ' || r == '-' })
	for len(words) > 0 && slices.Contains(brands, words[0]) {
		words = words[1:]
	}
	for n := len(words); n > 0; n-- {
		for _, p := range products {
			if slices.Contains(strings.Split(p.names, ","), strings.Join(words[:n], " ")) {
				return p.Capability, true
			}
		}
		if last := words[n-1]; !slices.Contains(forms, last) && !strings.HasSuffix(last, "gb") {
			break
		}
	}
	return 0, false
}
