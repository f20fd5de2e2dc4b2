"""The entry point: the kinds that `convert` supports; it is imported only if an input has one."""

from fusioninfer_pulumi.plugins.importers import Importer

ACME = Importer(
    name="Acme",
    module="acme_importer.convert",
    services={"LanguageModel": ("platform.acme.example/v1",)},
)
