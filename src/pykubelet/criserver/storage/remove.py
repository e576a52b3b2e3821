"""Removing folder trees that a container or an image has filled: as deep as they like, with links to anywhere."""

import os
import stat
from contextlib import suppress

from pykubelet.linux.errors import wrap

_MAX_OPEN = 128
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: str) -> None:
    """Remove the folder and all in it; done is done when it is gone already. Blocks.

    Links are removed, never followed: every step goes from an open folder to a name in it. A tree deeper than we want
    to hold folders open is moved up and removed from there. Raises as ``linux.errors.wrap`` (a mount inside is busy).
    """
    try:
        top = os.open(path, _FOLDER)
    except FileNotFoundError:
        return
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
    trail = [_Folder(top, "")]
    try:
        while True:
            here = trail[-1]
            if not here.pending:
                if len(trail) == 1:
                    break
                trail.pop()
                os.close(here.fd)
                os.rmdir(here.name, dir_fd=trail[-1].fd)
            elif len(trail) >= _MAX_OPEN:
                trail[0].adopt(here.fd, here.pending.pop())
            else:
                name = here.pending.pop()
                trail.append(_Folder(os.open(name, _FOLDER, dir_fd=here.fd), name))
        os.rmdir(path)  # noqa: PTH106 - no Path is made of a name that we have as text
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
    finally:
        for folder in trail:
            os.close(folder.fd)


def remove_any(path: str) -> None:
    """The same for whatever lies at the path; a link itself is removed, not what it points at."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
        if not is_folder:
            os.unlink(path)  # noqa: PTH108 - the same
            return
    except FileNotFoundError:
        return
    except OSError as error:
        raise wrap(error, f"cannot remove {path}") from error
    remove_tree(path)


class _Folder:
    """An open folder with the subfolders still to remove; its files are gone when it is made."""

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.pending: list[str] = []
        self._adopted = 0
        try:
            with os.scandir(fd) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        self.pending.append(entry.name)
                    else:
                        with suppress(FileNotFoundError):
                            os.unlink(entry.name, dir_fd=fd)
        except BaseException:
            os.close(fd)
            raise

    def adopt(self, parent: int, name: str) -> None:
        """Take a folder of somewhere below as a child of this one."""
        while True:
            self._adopted += 1
            new = f".deep-{self._adopted}"
            if new not in self.pending:
                break
        os.rename(name, new, src_dir_fd=parent, dst_dir_fd=self.fd)
        self.pending.append(new)
