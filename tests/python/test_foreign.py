"""Whether another distribution owns the package is seen from the lists of files beside it."""

from nixl._foreign import other_owner


def distribution(packages, name, *files):
    folder = packages / name
    folder.mkdir()
    (folder / "RECORD").write_text("".join(f"{file},sha256=0,1\n" for file in files))


def test_our_own_distribution_is_not_another(tmp_path):
    distribution(tmp_path, "nixl_open-1.5.1.dist-info", "nixl/__init__.py")
    assert other_owner(str(tmp_path)) is None


def test_a_distribution_that_only_has_the_name_owns_nothing(tmp_path):
    distribution(tmp_path, "nixl-1.5.1.dist-info", "nixl-1.5.1.dist-info/METADATA")
    distribution(tmp_path, "nixl_cu13-1.5.1.dist-info", "nixl_cu13/__init__.py")
    assert other_owner(str(tmp_path)) is None


def test_the_meta_distribution_of_nixl_is_found(tmp_path):
    distribution(tmp_path, "nixl_open-1.5.1.dist-info", "nixl/__init__.py")
    distribution(tmp_path, "nixl-1.5.1.dist-info", "nixl/__init__.py", "nixl_meta_utils.py")
    assert other_owner(str(tmp_path)) == "nixl"


def test_what_cannot_be_read_is_no_owner(tmp_path):
    (tmp_path / "nixl-1.5.1.dist-info").mkdir()
    assert other_owner(str(tmp_path)) is None
    assert other_owner(str(tmp_path / "missing")) is None
