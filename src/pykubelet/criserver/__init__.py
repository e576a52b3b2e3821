"""The container runtime server: serves CRI v1 on a unix socket to any kubelet.

It starts no container itself: an OCI runtime (runc, crun) makes them, one conmon each watches over them, CNI plugins
give pods their network. It keeps records of what it made, and can be killed and started again at any moment.
"""
