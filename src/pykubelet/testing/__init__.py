"""Fakes and harnesses for tests, benchmarks and the demo; the product never imports this package.

It contains fakes (``fake_api``, ``fake_cri``, ``fake_csi``, ``registry``), private instances of real programs
(``agent``, ``criserver``, ``containerd``, ``envtest``, ``distribution``), and checks for leftovers (``leakcheck``,
``nodetraces``). It may import every package of the project. Start reading in ``agent.py`` for integration tests,
and in ``fake_cri`` for unit tests.
"""
