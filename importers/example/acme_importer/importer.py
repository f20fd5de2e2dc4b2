"""The entry point: which kinds the package reads. `convert` is imported only if one is found."""

from fusioninfer_pulumi.plugins.importers import Importer

ACME = Importer(
    name="Acme",
    module="acme_importer.convert",
    services={"LanguageModel": ("platform.acme.example/v1",)},
)
