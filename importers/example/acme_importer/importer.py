"""The entry point. `acme_importer.convert` is imported only if an input has one of these kinds."""

from fusioninfer_pulumi.plugins.importers import Importer

ACME = Importer(
    name="Acme",
    module="acme_importer.convert",
    services={"LanguageModel": ("platform.acme.example/v1",)},
)
