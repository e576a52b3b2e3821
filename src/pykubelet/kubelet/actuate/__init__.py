"""Stage 3, make it so: sandboxes, containers, images, volumes and cgroups."""
