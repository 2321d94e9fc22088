"""The virtual machine: what a program is (`lang`), what it does for a signature (`plan`), how it runs (`run`)."""
