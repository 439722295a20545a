// Tables of class "sortable": a click on a heading sorts by that column, a second one turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") !== "descending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => Number(row.cells[column].dataset.value);
      const rows = [...body.rows].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)));
      body.append(...rows);
    });
  });
}
