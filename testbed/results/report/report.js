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
      const text = (row) => row.cells[column].textContent.trim();
      const number = (row) => Number(row.cells[column].dataset.value);
      const numeric = heading.classList.contains("n");
      const order = (a, b) => (numeric ? number(a) - number(b) : text(a).localeCompare(text(b), "en", { numeric: true }));
      // A cell without a number, such as a dash, comes after all that have one, whichever way they are sorted.
      const absent = (row) => numeric && Number.isNaN(number(row));
      const rows = [...body.rows];
      const known = rows.filter((row) => !absent(row)).sort((a, b) => (down ? order(b, a) : order(a, b)));
      body.append(...known, ...rows.filter(absent));
    });
  });
}

// Below a table or a figure of which a part is out of sight, a line says so.
for (const box of document.querySelectorAll(".sheet, .scrolls")) {
  const note = document.createElement("p");
  note.className = "more";
  const whole = document.createElement("div");
  box.replaceWith(whole);
  whole.append(box, note);
  const measure = () => {
    const ways = [];
    if (box.scrollHeight > box.clientHeight + 1) ways.push("down");
    if (box.scrollWidth > box.clientWidth + 1) ways.push("to the right");
    const rows = box.querySelectorAll("tbody tr").length;
    note.textContent = `Scroll ${ways.join(" and ")} for the rest of the ${rows ? `table of ${rows} rows` : "figure"}.`;
    note.hidden = !ways.length;
  };
  new ResizeObserver(measure).observe(box);
  measure();
}
