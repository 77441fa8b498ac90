# shellcheck shell=bash
# nixpkgs' autoAddDriverRunpath. addDriverRunpath (../addDriverRunpath.bash) is in
# front of this; nixpkgs' own function of that name is as good.
cudaRunpathStandIn autoAddDriverRunpath '@tools@' '@driverLink@' addDriverRunpath '@nixpkgsFunction@'
